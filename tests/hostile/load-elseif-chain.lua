-- Half a million branches of one if.
-- expect: ok
load("local a if a then" .. (" elseif a then"):rep(400000) .. " end")
