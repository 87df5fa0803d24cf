"$RECKON" --help
