"""What is put side by side in a case, with the same parameters and inputs."""
