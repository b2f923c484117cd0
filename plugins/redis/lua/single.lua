-- SPDX-License-Identifier: MIT
-- Before view.lua where there is no cluster; owned.lua otherwise.
local owned = nil
