"""What is told about the server's work: logs, counters, traces. Never secrets; what was said in spans alone."""
