"""What is told about the server's work: logs and traces. Never secrets, never contents."""
