"""RabbitMQ as a system under test, over AMQP 0-9-1.

connection one connection with one channel to one node, by pika
errors     what RabbitMQ's errors mean for an operation
logs       why a node ended
session    queues, and names that are declared once
settings   the files and options with which a node is started
probe      what a node is asked beside AMQP: who runs, who leads which queue (by `splitbrain_probe.erl`, in its VM)
system     how to start a node, how to talk to it, who leads
"""

from splitbrain.harness.systems.rabbitmq.session import RabbitmqSession
from splitbrain.harness.systems.rabbitmq.system import Rabbitmq

__all__ = ["Rabbitmq", "RabbitmqSession"]
