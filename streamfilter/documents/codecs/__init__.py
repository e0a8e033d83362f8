"""Codecs: bytes and schemas of JSON, Avro and Protobuf to values."""
