"""Everything around the process: images, manifests, dashboards, rules, and a native demo."""
