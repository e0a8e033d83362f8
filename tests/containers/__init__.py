"""deploy/ in real containers: what compose.yaml says, built and run by podman."""
