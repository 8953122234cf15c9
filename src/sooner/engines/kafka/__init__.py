"""Live series on Kafka: one fleet for each partition of a topic, its state in a compacted topic, all in one transaction."""
