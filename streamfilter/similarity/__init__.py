"""The mathematics: text to set to signature to band keys. Independent of Kafka and of the disk."""
