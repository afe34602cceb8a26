"""What all SQL stores share: tables, statements, rows, and how a batch is applied. Drivers are elsewhere."""
