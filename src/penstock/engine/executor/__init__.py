"""What runs an epoch: on Spark, or in this process."""
