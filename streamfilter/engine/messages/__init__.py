"""The records that the engine writes: outputs and the changelog, as bytes."""
