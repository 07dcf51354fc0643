"""What every measurement uses; knows no side and no case."""
