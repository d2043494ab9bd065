"""The Spark connector in a real session, against a real broker process."""
