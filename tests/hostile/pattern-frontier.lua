-- A frontier with a long set, tried at each place.
-- expect: timeout
string.find((" "):rep(1000000), "%f[" .. ("a"):rep(1000000) .. "]")
