"""The commands, one module each: what is typed, what it does, how it ends."""
