"""Manifests for kustomize. `python -m deploy.kubernetes` writes the generated one."""
