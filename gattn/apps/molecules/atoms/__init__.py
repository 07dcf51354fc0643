"""Models that predict a number or a class for every atom or bond of a molecule."""
