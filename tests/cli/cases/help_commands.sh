for c in train eval predict recommend index export serve health report tune convert inspect plan completion manual; do "$RECKON" $c --help; echo; done
