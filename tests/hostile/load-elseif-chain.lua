-- Half a million branches of one if.
-- expect: timeout
-- uninterrupted: as for a chain of or
load("local a if a then" .. (" elseif a then"):rep(400000) .. " end")
