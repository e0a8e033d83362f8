"""Manifests for kustomize; `python -m deploy.kubernetes` writes the one that is generated."""
