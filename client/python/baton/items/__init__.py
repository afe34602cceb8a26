"""What runs are made of, as users see it: items, outputs, replies, usage."""
