-- The script itself fails with nil.
-- expect: error .
error(nil)
