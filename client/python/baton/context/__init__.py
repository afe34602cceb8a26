"""What a function or a hook may know about its run, and what people decided in it."""
