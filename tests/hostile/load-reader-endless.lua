-- A reader that has always one more space.
-- expect: timeout
load(function() return " " end)
