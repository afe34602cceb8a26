"""The stubs generated from `proto/baton/v1`. Only this file is written by hand."""
