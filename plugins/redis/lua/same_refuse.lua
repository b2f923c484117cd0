if not is_same then
    return refuse_other()
end
