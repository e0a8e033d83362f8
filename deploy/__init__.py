"""Deployment files: images, manifests, dashboards, alert rules, and a demo without containers."""
