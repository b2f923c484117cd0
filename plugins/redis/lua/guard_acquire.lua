local refusal = guard.refuse_grants()
if refusal then
    return refusal
end
