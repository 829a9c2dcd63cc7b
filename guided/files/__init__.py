"""What lies on a disk or a hub: model files, their readers, downloads."""
