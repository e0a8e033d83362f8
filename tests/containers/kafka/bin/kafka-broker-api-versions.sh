#!/bin/bash
# Kafka's tools are not among the jars of the tests: healthy is who listens.
exec 3<>"/dev/tcp/localhost/${2##*:}"
