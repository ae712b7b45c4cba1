-- Many lazy repetitions before a letter that never comes: each adds a power to the time.
-- expect: timeout
string.find(("a"):rep(3000), "a-a-a-a-a-a-a-a-b")
