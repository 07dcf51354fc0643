"""What the commands do: tables in, folders and tables out. Take what you need from its module."""
