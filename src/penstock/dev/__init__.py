"""What a developer's machine needs and Penstock fetches: Java, the jars of a real Kafka."""
