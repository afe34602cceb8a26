"""`baton demo`: the main job, shown with real processes."""
