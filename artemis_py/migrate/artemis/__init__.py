"""Apache Artemis: the `etc` folder of an instance."""
