"""Our speed-accuracy curves beside the published ones: contents, figures, page."""
