-- The script fails with a message of megabytes.
-- expect: error x
error(("x"):rep(4 << 20), 0)
