"""What people see: sessions, events, items and open calls, in words and tables."""
