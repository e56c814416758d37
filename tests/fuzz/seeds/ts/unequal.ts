@problemName Odd
@timeStamps false
@univariate true
@equalLength false
@classLabel true 1 2
@data
# note
1,2,3:1
4,5:2
