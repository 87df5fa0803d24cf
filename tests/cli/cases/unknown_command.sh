"$RECKON" trian x.yaml
