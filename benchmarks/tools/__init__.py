"""What the commands do beside measuring cases."""
