"""What the commands do: graphs in, folders and tables out. Take what you need from its module."""
