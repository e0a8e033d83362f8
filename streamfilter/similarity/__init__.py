"""The mathematics: text to set to signature to band keys. Knows no Kafka and no disk."""
