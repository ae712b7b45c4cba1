-- A repeat whose condition never holds.
-- expect: timeout
repeat local done = false until done
