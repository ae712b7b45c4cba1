-- A reader that has always one more space: it runs out of time, or of memory, whichever is first.
-- expect: any end
load(function() return " " end)
