-- Names and texts that formats must escape.

it("has <tags> & \"quotes\", a # and a \\", function() error("<failure> & ]]> \"'", 0) end)
it("has control characters \1\27[31m and\nlines", function() error("\0\7\27[31mred\127", 0) end)
it("is not UTF-8: \xff\xfe, and this is: \u{fffe}ü", function() error("\xc3\x28", 0) end)
it("prints", function() print "# ok 1 - <printed> & \1" io.stderr:write "no newline" end)
