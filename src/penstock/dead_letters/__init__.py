"""What is in a dead-letter topic, and the way back: read letters, choose some, write their records into the source topics once."""
