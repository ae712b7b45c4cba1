-- Reads JSON with the name that browsers have.
local json = require("orrery").json
print(json.parse '{"a": 1}')
