-- A capture that is compared with all that follows, at each place.
-- expect: timeout
string.find(("a"):rep(200000), "(.-)%1%1%1b")
