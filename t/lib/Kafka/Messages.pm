package Kafka::Messages;

# The messages' fields by version, and a codec that walks them.
#
# Notation, one message a line:  name:type qualifiers; ...
#   types       bool i8 i16 i32 i64 u16 uuid str bytes records [T] {fields}
#   ?  ?(n+)    nullable, from that version on
#   <n+> <n-m>  the versions that have the field (all, when not said)
#   <tag n>     a tagged field
#   <=x>        what an absent value is encoded as, and a missing tag read as

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(encode decode api_key api_versions flexible varint unvarint);

# name => [key, lowest, highest, first flexible, request, response]
my %api = (

Produce => [0, 3, 13, 9,
    'TransactionalId:str?; Acks:i16; TimeoutMs:i32; TopicData:[{Name:str<0-12>;
     TopicId:uuid<13+>; PartitionData:[{Index:i32; Records:records?}]}]',
    'Responses:[{Name:str<0-12>; TopicId:uuid<13+>;
     PartitionResponses:[{Index:i32; ErrorCode:i16; BaseOffset:i64;
     LogAppendTimeMs:i64; LogStartOffset:i64<5+>;
     RecordErrors:[{BatchIndex:i32; BatchIndexErrorMessage:str?}]<8+>;
     ErrorMessage:str?<8+>;
     CurrentLeader:{LeaderId:i32; LeaderEpoch:i32}<10+ tag0>}]}];
     ThrottleTimeMs:i32;
     NodeEndpoints:[{NodeId:i32; Host:str; Port:i32; Rack:str?}]<10+ tag0>'],

Fetch => [1, 4, 18, 12,
    'ClusterId:str?<12+ tag0>; ReplicaId:i32<0-14 =-1>;
     ReplicaState:{ReplicaId:i32<=-1>; ReplicaEpoch:i64<=-1>}<15+ tag1>;
     MaxWaitMs:i32; MinBytes:i32; MaxBytes:i32<=2147483647>; IsolationLevel:i8;
     SessionId:i32<7+>; SessionEpoch:i32<7+ =-1>;
     Topics:[{Topic:str<0-12>; TopicId:uuid<13+>; Partitions:[{Partition:i32;
     CurrentLeaderEpoch:i32<9+ =-1>; FetchOffset:i64;
     LastFetchedEpoch:i32<12+ =-1>; LogStartOffset:i64<5+ =-1>;
     PartitionMaxBytes:i32; ReplicaDirectoryId:uuid<17+ tag0>;
     HighWatermark:i64<18+ tag1>}]}];
     ForgottenTopicsData:[{Topic:str<7-12>; TopicId:uuid<13+>;
     Partitions:[i32]}]<7+>; RackId:str<11+>',
    'ThrottleTimeMs:i32; ErrorCode:i16<7+>; SessionId:i32<7+>;
     Responses:[{Topic:str<0-12>; TopicId:uuid<13+>;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16; HighWatermark:i64;
     LastStableOffset:i64; LogStartOffset:i64<5+>;
     DivergingEpoch:{Epoch:i32; EndOffset:i64}<12+ tag0>;
     CurrentLeader:{LeaderId:i32; LeaderEpoch:i32}<12+ tag1>;
     SnapshotId:{EndOffset:i64; Epoch:i32}<12+ tag2>;
     AbortedTransactions:[{ProducerId:i64; FirstOffset:i64}]?;
     PreferredReadReplica:i32<11+>; Records:records?}]}];
     NodeEndpoints:[{NodeId:i32; Host:str; Port:i32; Rack:str?}]<16+ tag0>'],

ListOffsets => [2, 1, 11, 6,
    'ReplicaId:i32<=-1>; IsolationLevel:i8<2+>; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; CurrentLeaderEpoch:i32<4+ =-1>;
     Timestamp:i64}]}]; TimeoutMs:i32<10+>',
    'ThrottleTimeMs:i32<2+>; Topics:[{Name:str; Partitions:[{
     PartitionIndex:i32; ErrorCode:i16; Timestamp:i64; Offset:i64;
     LeaderEpoch:i32<4+>}]}]'],

Metadata => [3, 0, 13, 9,
    'Topics:[{TopicId:uuid<10+>; Name:str?(10+)}]?(1+);
     AllowAutoTopicCreation:bool<4+ =1>;
     IncludeClusterAuthorizedOperations:bool<8-10>;
     IncludeTopicAuthorizedOperations:bool<8+>',
    'ThrottleTimeMs:i32<3+>; Brokers:[{NodeId:i32; Host:str; Port:i32;
     Rack:str?<1+>}]; ClusterId:str?<2+>; ControllerId:i32<1+>;
     Topics:[{ErrorCode:i16; Name:str?(12+); TopicId:uuid<10+>;
     IsInternal:bool<1+>; Partitions:[{ErrorCode:i16; PartitionIndex:i32;
     LeaderId:i32; LeaderEpoch:i32<7+>; ReplicaNodes:[i32]; IsrNodes:[i32];
     OfflineReplicas:[i32]<5+>}]; TopicAuthorizedOperations:i32<8+>}];
     ClusterAuthorizedOperations:i32<8-10>; ErrorCode:i16<13+>'],

ApiVersions => [18, 0, 5, 3,
    'ClientSoftwareName:str<3+>; ClientSoftwareVersion:str<3+>;
     ClusterId:str?<5+>; NodeId:i32<5+ =-1>',
    'ErrorCode:i16; ApiKeys:[{ApiKey:i16; MinVersion:i16; MaxVersion:i16}];
     ThrottleTimeMs:i32<1+>;
     SupportedFeatures:[{Name:str; MinVersion:i16; MaxVersion:i16}]<3+ tag0>;
     FinalizedFeaturesEpoch:i64<3+ tag1 =-1>;
     FinalizedFeatures:[{Name:str; MaxVersionLevel:i16;
     MinVersionLevel:i16}]<3+ tag2>; ZkMigrationReady:bool<3+ tag3>'],

CreateTopics => [19, 2, 7, 5,
    'Topics:[{Name:str; NumPartitions:i32; ReplicationFactor:i16;
     Assignments:[{PartitionIndex:i32; BrokerIds:[i32]}];
     Configs:[{Name:str; Value:str?}]}]; timeoutMs:i32<=60000>;
     validateOnly:bool',
    'ThrottleTimeMs:i32; Topics:[{Name:str; TopicId:uuid<7+>; ErrorCode:i16;
     ErrorMessage:str?; TopicConfigErrorCode:i16<5+ tag0>;
     NumPartitions:i32<5+>; ReplicationFactor:i16<5+>;
     Configs:[{Name:str; Value:str?; ReadOnly:bool; ConfigSource:i8;
     IsSensitive:bool}]?<5+>}]'],

DeleteTopics => [20, 1, 6, 4,
    'Topics:[{Name:str?; TopicId:uuid}]<6+>; TopicNames:[str]<0-5>;
     TimeoutMs:i32',
    'ThrottleTimeMs:i32; Responses:[{Name:str?(6+); TopicId:uuid<6+>;
     ErrorCode:i16; ErrorMessage:str?<5+>}]'],

InitProducerId => [22, 0, 5, 2,
    'TransactionalId:str?; TransactionTimeoutMs:i32; ProducerId:i64<3+ =-1>;
     ProducerEpoch:i16<3+ =-1>',
    'ThrottleTimeMs:i32; ErrorCode:i16; ProducerId:i64; ProducerEpoch:i16'],

OffsetForLeaderEpoch => [23, 2, 4, 4,
    'ReplicaId:i32<3+ =-2>; Topics:[{Topic:str; Partitions:[{Partition:i32;
     CurrentLeaderEpoch:i32<=-1>; LeaderEpoch:i32}]}]',
    'ThrottleTimeMs:i32; Topics:[{Topic:str; Partitions:[{ErrorCode:i16;
     Partition:i32; LeaderEpoch:i32; EndOffset:i64}]}]'],

DescribeConfigs => [32, 1, 4, 4,
    'Resources:[{ResourceType:i8; ResourceName:str; ConfigurationKeys:[str]?}];
     IncludeSynonyms:bool; IncludeDocumentation:bool<3+>',
    'ThrottleTimeMs:i32; Results:[{ErrorCode:i16; ErrorMessage:str?;
     ResourceType:i8; ResourceName:str; Configs:[{Name:str; Value:str?;
     ReadOnly:bool; ConfigSource:i8; IsSensitive:bool;
     Synonyms:[{Name:str; Value:str?; Source:i8}]; ConfigType:i8<3+>;
     Documentation:str?<3+>}]}]'],

DescribeCluster => [60, 0, 2, 0,
    'IncludeClusterAuthorizedOperations:bool; EndpointType:i8<1+ =1>;
     IncludeFencedBrokers:bool<2+>',
    'ThrottleTimeMs:i32; ErrorCode:i16; ErrorMessage:str?; EndpointType:i8<1+>;
     ClusterId:str; ControllerId:i32; Brokers:[{BrokerId:i32; Host:str;
     Port:i32; Rack:str?; IsFenced:bool<2+>}];
     ClusterAuthorizedOperations:i32'],

DescribeTopicPartitions => [75, 0, 0, 0,
    'Topics:[{Name:str}]; ResponsePartitionLimit:i32<=2000>;
     Cursor:{TopicName:str; PartitionIndex:i32}?',
    'ThrottleTimeMs:i32; Topics:[{ErrorCode:i16; Name:str?; TopicId:uuid;
     IsInternal:bool; Partitions:[{ErrorCode:i16; PartitionIndex:i32;
     LeaderId:i32; LeaderEpoch:i32; ReplicaNodes:[i32]; IsrNodes:[i32];
     EligibleLeaderReplicas:[i32]?; LastKnownElr:[i32]?;
     OfflineReplicas:[i32]}]; TopicAuthorizedOperations:i32}];
     NextCursor:{TopicName:str; PartitionIndex:i32}?'],

OffsetCommit => [8, 2, 10, 8,
    'GroupId:str; GenerationIdOrMemberEpoch:i32<=-1>; MemberId:str;
     GroupInstanceId:str?<7+>; RetentionTimeMs:i64<2-4 =-1>;
     Topics:[{Name:str<0-9>; TopicId:uuid<10+>;
     Partitions:[{PartitionIndex:i32; CommittedOffset:i64;
     CommittedLeaderEpoch:i32<6+ =-1>; CommittedMetadata:str?}]}]',
    'ThrottleTimeMs:i32<3+>; Topics:[{Name:str<0-9>; TopicId:uuid<10+>;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16}]}]'],

OffsetFetch => [9, 1, 10, 6,
    'GroupId:str<0-7>; Topics:[{Name:str<0-7>;
     PartitionIndexes:[i32]<0-7>}]?(2+)<0-7>; Groups:[{GroupId:str<8+>;
     MemberId:str?<9+>; MemberEpoch:i32<9+ =-1>; Topics:[{Name:str<8-9>;
     TopicId:uuid<10+>; PartitionIndexes:[i32]<8+>}]?<8+>}]<8+>;
     RequireStable:bool<7+>',
    'ThrottleTimeMs:i32<3+>; Topics:[{Name:str<0-7>;
     Partitions:[{PartitionIndex:i32<0-7>; CommittedOffset:i64<0-7>;
     CommittedLeaderEpoch:i32<5-7 =-1>; Metadata:str?<0-7>;
     ErrorCode:i16<0-7>}]<0-7>}]<0-7>; ErrorCode:i16<2-7>;
     Groups:[{GroupId:str<8+>; Topics:[{Name:str<8-9>;
     TopicId:uuid<10+>; Partitions:[{PartitionIndex:i32<8+>;
     CommittedOffset:i64<8+>; CommittedLeaderEpoch:i32<8+ =-1>;
     Metadata:str?<8+>; ErrorCode:i16<8+>}]<8+>}]<8+>;
     ErrorCode:i16<8+>}]<8+>'],

FindCoordinator => [10, 0, 6, 3,
    'Key:str<0-3>; KeyType:i8<1+>; CoordinatorKeys:[str]<4+>',
    'ThrottleTimeMs:i32<1+>; ErrorCode:i16<0-3>; ErrorMessage:str?<1-3>;
     NodeId:i32<0-3>; Host:str<0-3>; Port:i32<0-3>;
     Coordinators:[{Key:str<4+>; NodeId:i32<4+>; Host:str<4+>;
     Port:i32<4+>; ErrorCode:i16<4+>; ErrorMessage:str?<4+>}]<4+>'],

JoinGroup => [11, 0, 9, 6,
    'GroupId:str; SessionTimeoutMs:i32; RebalanceTimeoutMs:i32<1+ =-1>;
     MemberId:str; GroupInstanceId:str?<5+>; ProtocolType:str;
     Protocols:[{Name:str; Metadata:bytes}]; Reason:str?<8+>',
    'ThrottleTimeMs:i32<2+>; ErrorCode:i16; GenerationId:i32<=-1>;
     ProtocolType:str?<7+>; ProtocolName:str?(7+); Leader:str;
     SkipAssignment:bool<9+>; MemberId:str; Members:[{MemberId:str;
     GroupInstanceId:str?<5+>; Metadata:bytes}]'],

Heartbeat => [12, 0, 4, 4,
    'GroupId:str; GenerationId:i32; MemberId:str;
     GroupInstanceId:str?<3+>',
    'ThrottleTimeMs:i32<1+>; ErrorCode:i16'],

LeaveGroup => [13, 0, 5, 4,
    'GroupId:str; MemberId:str<0-2>; Members:[{MemberId:str<3+>;
     GroupInstanceId:str?<3+>; Reason:str?<5+>}]<3+>',
    'ThrottleTimeMs:i32<1+>; ErrorCode:i16; Members:[{MemberId:str<3+>;
     GroupInstanceId:str?<3+>; ErrorCode:i16<3+>}]<3+>'],

SyncGroup => [14, 0, 5, 4,
    'GroupId:str; GenerationId:i32; MemberId:str;
     GroupInstanceId:str?<3+>; ProtocolType:str?<5+>;
     ProtocolName:str?<5+>; Assignments:[{MemberId:str;
     Assignment:bytes}]',
    'ThrottleTimeMs:i32<1+>; ErrorCode:i16; ProtocolType:str?<5+>;
     ProtocolName:str?<5+>; Assignment:bytes'],

DescribeGroups => [15, 0, 6, 5,
    'Groups:[str]; IncludeAuthorizedOperations:bool<3+>',
    'ThrottleTimeMs:i32<1+>; Groups:[{ErrorCode:i16;
     ErrorMessage:str?<6+>; GroupId:str; GroupState:str;
     ProtocolType:str; ProtocolData:str; Members:[{MemberId:str;
     GroupInstanceId:str?<4+>; ClientId:str; ClientHost:str;
     MemberMetadata:bytes; MemberAssignment:bytes}];
     AuthorizedOperations:i32<3+ =-2147483648>}]'],

ListGroups => [16, 0, 5, 3,
    'StatesFilter:[str]<4+>; TypesFilter:[str]<5+>',
    'ThrottleTimeMs:i32<1+>; ErrorCode:i16; Groups:[{GroupId:str;
     ProtocolType:str; GroupState:str<4+>; GroupType:str<5+>}]'],

DeleteRecords => [21, 0, 2, 2,
    'Topics:[{Name:str; Partitions:[{PartitionIndex:i32; Offset:i64}]}];
     TimeoutMs:i32',
    'ThrottleTimeMs:i32; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; LowWatermark:i64;
     ErrorCode:i16}]}]'],

AlterConfigs => [33, 0, 2, 2,
    'Resources:[{ResourceType:i8; ResourceName:str; Configs:[{Name:str;
     Value:str?}]}]; ValidateOnly:bool',
    'ThrottleTimeMs:i32; Responses:[{ErrorCode:i16; ErrorMessage:str?;
     ResourceType:i8; ResourceName:str}]'],

DescribeLogDirs => [35, 1, 5, 2,
    'Topics:[{Topic:str; Partitions:[i32]}]?',
    'ThrottleTimeMs:i32; ErrorCode:i16<3+>; Results:[{ErrorCode:i16;
     LogDir:str; Topics:[{Name:str; Partitions:[{PartitionIndex:i32;
     PartitionSize:i64; OffsetLag:i64; IsFutureKey:bool}]}];
     TotalBytes:i64<4+ =-1>; UsableBytes:i64<4+ =-1>;
     IsCordoned:bool<5+>}]'],

CreatePartitions => [37, 0, 3, 2,
    'Topics:[{Name:str; Count:i32; Assignments:[{BrokerIds:[i32]}]?}];
     TimeoutMs:i32; ValidateOnly:bool',
    'ThrottleTimeMs:i32; Results:[{Name:str; ErrorCode:i16;
     ErrorMessage:str?<=null>}]'],

DeleteGroups => [42, 0, 3, 2,
    'GroupsNames:[str]',
    'ThrottleTimeMs:i32; Results:[{GroupId:str; ErrorCode:i16;
     ErrorMessage:str?<3+>}]'],

IncrementalAlterConfigs => [44, 0, 1, 1,
    'Resources:[{ResourceType:i8; ResourceName:str; Configs:[{Name:str;
     ConfigOperation:i8; Value:str?}]}]; ValidateOnly:bool',
    'ThrottleTimeMs:i32; Responses:[{ErrorCode:i16; ErrorMessage:str?;
     ResourceType:i8; ResourceName:str}]'],

OffsetDelete => [47, 0, 0, 99,
    'GroupId:str; Topics:[{Name:str; Partitions:[{PartitionIndex:i32}]}]',
    'ErrorCode:i16; ThrottleTimeMs:i32; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16}]}]'],

ListConfigResources => [74, 0, 1, 0,
    'ResourceTypes:[i8]<1+>',
    'ThrottleTimeMs:i32; ErrorCode:i16;
     ConfigResources:[{ResourceName:str; ResourceType:i8<1+ =16>}]'],

AddPartitionsToTxn => [24, 0, 5, 3,
    'Transactions:[{TransactionalId:str<4+>; ProducerId:i64<4+>;
     ProducerEpoch:i16<4+>; VerifyOnly:bool<4+>; Topics:[{Name:str;
     Partitions:[i32]}]<4+>}]<4+>; V3AndBelowTransactionalId:str<0-3>;
     V3AndBelowProducerId:i64<0-3>; V3AndBelowProducerEpoch:i16<0-3>;
     V3AndBelowTopics:[{Name:str; Partitions:[i32]}]<0-3>',
    'ThrottleTimeMs:i32; ErrorCode:i16<4+>;
     ResultsByTransaction:[{TransactionalId:str<4+>;
     TopicResults:[{Name:str; ResultsByPartition:[{PartitionIndex:i32;
     PartitionErrorCode:i16}]}]<4+>}]<4+>;
     ResultsByTopicV3AndBelow:[{Name:str;
     ResultsByPartition:[{PartitionIndex:i32;
     PartitionErrorCode:i16}]}]<0-3>'],

AddOffsetsToTxn => [25, 0, 4, 3,
    'TransactionalId:str; ProducerId:i64; ProducerEpoch:i16; GroupId:str',
    'ThrottleTimeMs:i32; ErrorCode:i16'],

EndTxn => [26, 0, 5, 3,
    'TransactionalId:str; ProducerId:i64; ProducerEpoch:i16;
     Committed:bool',
    'ThrottleTimeMs:i32; ErrorCode:i16; ProducerId:i64<5+ =-1>;
     ProducerEpoch:i16<5+ =-1>'],

WriteTxnMarkers => [27, 1, 2, 1,
    'Markers:[{ProducerId:i64; ProducerEpoch:i16;
     TransactionResult:bool; Topics:[{Name:str;
     PartitionIndexes:[i32]}]; CoordinatorEpoch:i32;
     TransactionVersion:i8<2+>}]',
    'Markers:[{ProducerId:i64; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16}]}]}]'],

TxnOffsetCommit => [28, 0, 6, 3,
    'TransactionalId:str; GroupId:str; ProducerId:i64;
     ProducerEpoch:i16; GenerationIdOrMemberEpoch:i32<3+ =-1>;
     MemberId:str<3+>; GroupInstanceId:str?<3+>; Topics:[{Name:str<0-5>;
     TopicId:uuid<6+>; Partitions:[{PartitionIndex:i32;
     CommittedOffset:i64; CommittedLeaderEpoch:i32<2+ =-1>;
     CommittedMetadata:str?}]}]',
    'ThrottleTimeMs:i32; Topics:[{Name:str<0-5>; TopicId:uuid<6+>;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16}]}]'],

DescribeProducers => [61, 0, 0, 0,
    'Topics:[{Name:str; PartitionIndexes:[i32]}]',
    'ThrottleTimeMs:i32; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16; ErrorMessage:str?;
     ActiveProducers:[{ProducerId:i64; ProducerEpoch:i32;
     LastSequence:i32<=-1>; LastTimestamp:i64<=-1>;
     CoordinatorEpoch:i32; CurrentTxnStartOffset:i64<=-1>}]}]}]'],

DescribeTransactions => [65, 0, 0, 0,
    'TransactionalIds:[str]',
    'ThrottleTimeMs:i32; TransactionStates:[{ErrorCode:i16;
     TransactionalId:str; TransactionState:str;
     TransactionTimeoutMs:i32; TransactionStartTimeMs:i64;
     ProducerId:i64; ProducerEpoch:i16; Topics:[{Topic:str;
     Partitions:[i32]}]}]'],

ListTransactions => [66, 0, 2, 0,
    'StateFilters:[str]; ProducerIdFilters:[i64]; DurationFilter:i64<1+
     =-1>; TransactionalIdPattern:str?<2+>',
    'ThrottleTimeMs:i32; ErrorCode:i16; UnknownStateFilters:[str];
     TransactionStates:[{TransactionalId:str; ProducerId:i64;
     TransactionState:str}]'],

# Asked for only to see how a key that the broker does not serve is treated.
SaslHandshake => [17, 0, 1, 99, 'Mechanism:str',
    'ErrorCode:i16; Mechanisms:[str]'],

AlterReplicaLogDirs => [34, 1, 2, 2,
    'Dirs:[{Path:str; Topics:[{Name:str; Partitions:[i32]}]}]',
    'ThrottleTimeMs:i32; Results:[{TopicName:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16}]}]'],

CreateDelegationToken => [38, 1, 3, 2,
    'OwnerPrincipalType:str?<3+>; OwnerPrincipalName:str?<3+>;
     Renewers:[{PrincipalType:str; PrincipalName:str}]; MaxLifetimeMs:i64',
    'ErrorCode:i16; PrincipalType:str; PrincipalName:str;
     TokenRequesterPrincipalType:str<3+>; TokenRequesterPrincipalName:str<3+>;
     IssueTimestampMs:i64; ExpiryTimestampMs:i64; MaxTimestampMs:i64;
     TokenId:str; Hmac:bytes; ThrottleTimeMs:i32'],

RenewDelegationToken => [39, 1, 2, 2,
    'Hmac:bytes; RenewPeriodMs:i64',
    'ErrorCode:i16; ExpiryTimestampMs:i64; ThrottleTimeMs:i32'],

ExpireDelegationToken => [40, 1, 2, 2,
    'Hmac:bytes; ExpiryTimePeriodMs:i64',
    'ErrorCode:i16; ExpiryTimestampMs:i64; ThrottleTimeMs:i32'],

DescribeDelegationToken => [41, 1, 3, 2,
    'Owners:[{PrincipalType:str; PrincipalName:str}]?',
    'ErrorCode:i16; Tokens:[{PrincipalType:str; PrincipalName:str;
     TokenRequesterPrincipalType:str<3+>; TokenRequesterPrincipalName:str<3+>;
     IssueTimestamp:i64; ExpiryTimestamp:i64; MaxTimestamp:i64; TokenId:str;
     Hmac:bytes; Renewers:[{PrincipalType:str; PrincipalName:str}]}];
     ThrottleTimeMs:i32'],

ElectLeaders => [43, 0, 2, 2,
    'ElectionType:i8<1+>; TopicPartitions:[{Topic:str; Partitions:[i32]}]?;
     TimeoutMs:i32<=60000>',
    'ThrottleTimeMs:i32; ErrorCode:i16<1+>;
     ReplicaElectionResults:[{Topic:str; PartitionResult:[{PartitionId:i32;
     ErrorCode:i16; ErrorMessage:str?}]}]'],

AlterPartitionReassignments => [45, 0, 1, 0,
    'TimeoutMs:i32<=60000>; AllowReplicationFactorChange:bool<1+ =1>;
     Topics:[{Name:str; Partitions:[{PartitionIndex:i32;
     Replicas:[i32]?}]}]',
    'ThrottleTimeMs:i32; AllowReplicationFactorChange:bool<1+ =1>;
     ErrorCode:i16; ErrorMessage:str?; Responses:[{Name:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16; ErrorMessage:str?}]}]'],

ListPartitionReassignments => [46, 0, 0, 0,
    'TimeoutMs:i32<=60000>; Topics:[{Name:str; PartitionIndexes:[i32]}]?',
    'ThrottleTimeMs:i32; ErrorCode:i16; ErrorMessage:str?; Topics:[{Name:str;
     Partitions:[{PartitionIndex:i32; Replicas:[i32]; AddingReplicas:[i32];
     RemovingReplicas:[i32]}]}]'],

DescribeQuorum => [55, 0, 2, 0,
    'Topics:[{TopicName:str; Partitions:[{PartitionIndex:i32}]}]',
    'ErrorCode:i16; ErrorMessage:str?<2+>; Topics:[{TopicName:str;
     Partitions:[{PartitionIndex:i32; ErrorCode:i16; ErrorMessage:str?<2+>;
     LeaderId:i32; LeaderEpoch:i32; HighWatermark:i64;
     CurrentVoters:[{ReplicaId:i32; ReplicaDirectoryId:uuid<2+>;
     LogEndOffset:i64; LastFetchTimestamp:i64<1+ =-1>;
     LastCaughtUpTimestamp:i64<1+ =-1>}]; Observers:[{ReplicaId:i32;
     ReplicaDirectoryId:uuid<2+>; LogEndOffset:i64;
     LastFetchTimestamp:i64<1+ =-1>;
     LastCaughtUpTimestamp:i64<1+ =-1>}]}]}]; Nodes:[{NodeId:i32<2+>;
     Listeners:[{Name:str<2+>; Host:str<2+>; Port:u16<2+>}]<2+>}]<2+>'],

UpdateFeatures => [57, 0, 2, 0,
    'TimeoutMs:i32<=60000>; FeatureUpdates:[{Feature:str;
     MaxVersionLevel:i16; AllowDowngrade:bool<0>; UpgradeType:i8<1+ =1>}];
     ValidateOnly:bool<1+>',
    'ThrottleTimeMs:i32; ErrorCode:i16; ErrorMessage:str?;
     Results:[{Feature:str; ErrorCode:i16; ErrorMessage:str?}]<0-1>'],

);

my %parsed;

sub api_key { ($api{$_[0]} or die "no api $_[0]")->[0] }
sub api_versions { @{ $api{$_[0]} or die "no api $_[0]" }[1, 2] }
sub flexible { $_[1] >= ($api{$_[0]} or die "no api $_[0]")->[3] }


# ---- notation

sub fields {
    my ($api, $which) = @_;

    return $parsed{"$api $which"} ||= do {
        my $text = $api{$api}[$which eq 'request' ? 4 : 5];
        $text =~ s/\s+/ /g;
        pos($text) = 0;
        my $f = parse_fields(\$text);
        die "$api $which: rest " . substr $text, pos $text
            if pos $text < length $text;
        $f;
    };
}


sub parse_fields {
    my ($t) = @_;
    my @fields;

    while ($$t =~ /\G\s*(\w+):/gc) {
        my $f = { name => $1, from => 0, to => 1 << 15 };
        parse_type($t, $f);

        if ($$t =~ /\G\?/gc) {
            $f->{null_from} = $$t =~ /\G\((\d+)\+\)/gc ? $1 : 0;
        }

        if ($$t =~ /\G<([^>]*)>/gc) {
            my $q = $1;
            $f->{tag} = $1 if $q =~ s/tag ?(\d+)//;
            $f->{default} = $1 if $q =~ s/=(\S+)//;
            ($f->{from}, $f->{to}) = ($1, $3 // ($2 ? 1 << 15 : $1))
                if $q =~ /(\d+)(\+)?(?:-(\d+))?/;
        }

        push @fields, $f;
        last unless $$t =~ /\G\s*;/gc;
    }

    $$t =~ /\G\s*/gc;

    return \@fields;
}


sub parse_type {
    my ($t, $f) = @_;

    if ($$t =~ /\G\[/gc) {
        $f->{type} = 'array';
        $f->{of} = { name => "$f->{name}\[]" };
        parse_type($t, $f->{of});
        $$t =~ /\G\]/gc or die "no ] at " . substr $$t, pos $$t, 20;

    } elsif ($$t =~ /\G\{/gc) {
        $f->{type} = 'struct';
        $f->{fields} = parse_fields($t);
        $$t =~ /\G\}/gc or die "no } at " . substr $$t, pos $$t, 20;

    } elsif ($$t =~ /\G(\w+)/gc) {
        $f->{type} = $1;

    } else {
        die "no type at " . substr $$t, pos $$t, 20;
    }
}


# ---- writing

sub encode {
    my ($api, $which, $version, $m) = @_;

    return put_struct(fields($api, $which), $m || {}, $version,
        flexible($api, $version));
}


sub put_struct {
    my ($fields, $m, $v, $flex) = @_;
    my ($out, %tags) = ('');

    for my $f (@$fields) {
        next if $v < $f->{from} || $v > $f->{to};

        if (defined $f->{tag}) {
            $tags{$f->{tag}} = put($f, $m->{$f->{name}}, $v, $flex)
                if defined $m->{$f->{name}};
            next;
        }

        $out .= put($f, $m->{$f->{name}} // $f->{default}, $v, $flex);
    }

    return $out unless $flex;

    # A test adds tags of its own as _tags => { number => bytes }.
    %tags = (%tags, %{ $m->{_tags} || {} });
    $out .= varint(scalar keys %tags);
    $out .= varint($_) . varint(length $tags{$_}) . $tags{$_}
        for sort { $a <=> $b } keys %tags;

    return $out;
}


sub put {
    my ($f, $x, $v, $flex) = @_;
    my $type = $f->{type};

    return pack 'C', $x ? 1 : 0 if $type eq 'bool';
    return pack 'c', $x // 0 if $type eq 'i8';
    return pack 's>', $x // 0 if $type eq 'i16';
    return pack 'n', $x // 0 if $type eq 'u16';
    return pack 'l>', $x // 0 if $type eq 'i32';
    return pack 'q>', $x // 0 if $type eq 'i64';
    return $x // "\0" x 16 if $type eq 'uuid';

    my $nullable = defined $f->{null_from} && $v >= $f->{null_from};

    if ($type eq 'struct') {
        return "\xff" if $nullable && !defined $x;
        return ($nullable ? "\1" : '')
            . put_struct($f->{fields}, $x || {}, $v, $flex);
    }

    if ($type eq 'array') {
        return $flex ? "\0" : "\xff\xff\xff\xff" if !defined $x && $nullable;
        $x ||= [];
        return ($flex ? varint(@$x + 1) : pack 'N', scalar @$x)
            . join '', map put($f->{of}, $_, $v, $flex), @$x;
    }

    if (!defined $x && $nullable) {
        return "\0" if $flex;
        return $type eq 'str' ? "\xff\xff" : "\xff\xff\xff\xff";
    }

    $x //= '';
    return varint(1 + length $x) . $x if $flex;
    return pack($type eq 'str' ? 'n' : 'N', length $x) . $x;
}


# ---- reading

# at: where the message begins.  The header's tags of a flexible response are
# skipped, which an ApiVersions response never has.  asked: the version of the
# request, when the answer is encoded in another.  Dies on a short message or
# on bytes that are left.
sub decode {
    my ($api, $which, $version, $bytes, $at, $asked) = @_;

    my $r = { bytes => $bytes, at => $at || 0 };
    my $flex = flexible($api, $version);

    skip_tags($r) if $which eq 'response' && $api ne 'ApiVersions'
        && flexible($api, $asked // $version);

    my $m = get_struct($r, fields($api, $which), $version, $flex);
    my $left = length($bytes) - $r->{at};

    die "$api v$version $which: $left bytes left\n" if $left;

    return $m;
}


sub take {
    my ($r, $n) = @_;

    die "short message: $n bytes at $r->{at} of " . length($r->{bytes}) . "\n"
        if $n < 0 || $r->{at} + $n > length $r->{bytes};
    $r->{at} += $n;

    return substr $r->{bytes}, $r->{at} - $n, $n;
}


sub get_varint {
    my ($r) = @_;
    my ($x, $shift) = (0, 0);

    while (1) {
        my $b = ord take($r, 1);
        $x |= ($b & 127) << $shift;
        return $x if $b < 128;
        $shift += 7;
        die "varint too long\n" if $shift > 63;
    }
}


sub skip_tags {
    my ($r) = @_;

    for (1 .. get_varint($r)) {
        get_varint($r);
        take($r, get_varint($r));
    }
}


sub get_struct {
    my ($r, $fields, $v, $flex) = @_;
    my (%m, %tagged);

    for my $f (@$fields) {
        next if $v < $f->{from} || $v > $f->{to};

        if (defined $f->{tag}) {
            $tagged{$f->{tag}} = $f;
            $m{$f->{name}} = $f->{default} if defined $f->{default};
            next;
        }

        $m{$f->{name}} = get($r, $f, $v, $flex);
    }

    return \%m unless $flex;

    my $last = -1;

    for (1 .. get_varint($r)) {
        my ($tag, $size) = (get_varint($r), get_varint($r));
        die "tag $tag after $last\n" unless $tag > $last;
        $last = $tag;

        if (my $f = $tagged{$tag}) {
            my $end = $r->{at} + $size;
            $m{$f->{name}} = get($r, $f, $v, $flex);
            die "tag $tag of $size bytes\n" unless $r->{at} == $end;

        } else {
            $m{_tags}{$tag} = take($r, $size);
        }
    }

    return \%m;
}


sub get {
    my ($r, $f, $v, $flex) = @_;
    my $type = $f->{type};

    return unpack 'C', take($r, 1) if $type eq 'bool';
    return unpack 'c', take($r, 1) if $type eq 'i8';
    return unpack 's>', take($r, 2) if $type eq 'i16';
    return unpack 'n', take($r, 2) if $type eq 'u16';
    return unpack 'l>', take($r, 4) if $type eq 'i32';
    return unpack 'q>', take($r, 8) if $type eq 'i64';
    return take($r, 16) if $type eq 'uuid';

    my $nullable = defined $f->{null_from} && $v >= $f->{null_from};

    if ($type eq 'struct') {
        return undef if $nullable && unpack('c', take($r, 1)) < 0;
        return get_struct($r, $f->{fields}, $v, $flex);
    }

    my $n = $flex ? get_varint($r) - 1
        : $type eq 'str' ? unpack('s>', take($r, 2))
        : unpack('l>', take($r, 4));

    if ($n < 0) {
        die "$f->{name}: null, but not nullable in v$v\n" unless $nullable;
        return undef;
    }

    return take($r, $n) unless $type eq 'array';
    die "$f->{name}: $n elements\n" if $n > length $r->{bytes};

    return [map get($r, $f->{of}, $v, $flex), 1 .. $n];
}


# Unsigned, as compact lengths and tags use them.
sub varint {
    my ($x) = @_;
    my $out = '';

    while ($x > 127) {
        $out .= chr($x & 127 | 128);
        $x >>= 7;
    }

    return $out . chr $x;
}


# (value, bytes used) of an unsigned varint at an offset.
sub unvarint {
    my ($bytes, $at) = @_;
    my $r = { bytes => $bytes, at => $at };

    my $x = get_varint($r);

    return ($x, $r->{at} - $at);
}


1;
